// Package peers checks that the nodes of a run reach one another on the ports
// that it will use: each node listens on its own, dials those of the others, and
// says which did not answer.
package peers
