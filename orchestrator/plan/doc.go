// Package plan turns a recipe, a site and a catalog entry into a plan: which
// worker runs on which node and GPUs, with which arguments, environment, ports
// and time budgets. It is pure: the same inputs give the same bytes, and
// nothing is read from the machine it runs on.
//
// Build is the whole of it. The other functions look at a plan: Encode, Decode
// and Hash for its canonical bytes, Explain for where each value comes from,
// Diff for what two plans differ in, Table for people.
package plan
