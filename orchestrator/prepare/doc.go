// Package prepare goes from the files a user wrote to a sealed run directory:
// it finds and reads recipe, site and catalog, has the plan built, and writes
// everything a run needs before anything is submitted. It is the only reader of
// the three kinds of file.
package prepare
