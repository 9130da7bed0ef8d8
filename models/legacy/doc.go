// Package legacy turns what the launcher scripts read that this project
// replaces into recipes, sites and catalog files: the submit script's arguments
// and environment, the model files, the node exclusions and the master files of
// a sweep repository.
//
// The aim is the same commands. Where the scripts did something that nobody
// can have meant (see the parity rules of package engine), the result is what
// was meant; where they took a value and dropped it, the value is reported with
// its place.
//
// The package is pure: texts in, texts and values out.
package legacy
