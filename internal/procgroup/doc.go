// Package procgroup starts programs, each leader of a process group of its own,
// and ends whole groups. It is the only package that starts processes, so that
// the rules hold everywhere: the environment is exactly what was given, stdin is
// /dev/null unless asked otherwise, a grandchild that holds a pipe never delays
// anybody, and a process that even SIGKILL does not remove is reported instead
// of waited for.
package procgroup
