// Package catalog holds what is known of models and engines: one file a model
// (kind Model) with the settings that make it run well on each engine and with
// its limits, and one file an engine (kind Engine) with what all models share.
//
// Settings are layers. A layer applies when its condition holds for a worker
// (role, scenario, expert parallelism, …); layers apply in the order of the
// file, the engine's before the model's, and what a later layer sets replaces
// what an earlier one set. Numbers may be formulas over named integers.
package catalog
