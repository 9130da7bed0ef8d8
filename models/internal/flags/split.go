// Package flags reads and edits command-line flags: the text form that recipes
// and catalog files use ("--flag value", with the quoting of a shell), and
// lists of flags in which a later setting replaces an earlier one in its place.
package flags

import (
	"fmt"
	"strings"
)

// Split cuts a text into words as a POSIX shell does, without any expansion:
// blanks separate, single quotes keep everything, double quotes keep everything
// but \" and \\, and a backslash outside quotes keeps the next character. Unlike
// a shell it keeps a formula, ${…}, in one word whatever blanks it holds.
func Split(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, escaped, inFormula := false, false, false
	var before rune
	for _, r := range text {
		opens := before == '$' && r == '{' && !escaped
		before = r
		switch {
		case r == 0:
			return nil, fmt.Errorf("%q holds a NUL character", text)
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case inFormula || opens:
			word.WriteRune(r)
			inFormula = r != '}'
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a %c in %q is not closed", quote, text)
	case escaped:
		return nil, fmt.Errorf("%q ends in a backslash", text)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
