// Package bench measures whole runs on the lab: how soon containers start, how
// soon a ready router is noticed, how soon a worker's death ends everything, and
// what the tool's own processes weigh. It prints medians, and for some figures
// whether all runs kept to what is promised.
package bench
