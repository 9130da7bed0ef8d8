// Package engine composes, for each engine (SGLang, vLLM, ATOM), the argument
// list and environment of every worker rank, of the router and of the services
// beside them, from a recipe, a site, a catalog entry and the layout of workers
// on nodes. It also finds combinations that would fail or mislead only hours
// later (Check).
//
// Everything here is a pure function. Facts of a node that are known only when
// the run has its nodes are left as placeholders (see models.Placeholder*).
package engine
