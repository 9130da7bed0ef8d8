// Package parse reads what outside tools and the kernel print. Nothing printed
// is trusted: a parser never panics, never guesses a number it did not see, and
// keeps the lines it read a value from, so that a finding can show them.
//
// Absence is kept apart from zero everywhere: a value that was not printed, or
// was printed as N/A, is nil.
package parse
