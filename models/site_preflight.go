package models

// PreflightSite holds what a healthy node of this site looks like. Every value
// is optional: invariants are checked without it, golden values only with it.
type PreflightSite struct {
	// ToolPath is put before PATH when tools are looked for on a node.
	ToolPath []string `yaml:"tool_path,omitempty" json:"tool_path,omitempty"`
	// Root is prepended to /sys, /proc and /dev when facts are read; for
	// judging captured trees and for labs.
	Root string `yaml:"root,omitempty" json:"root,omitempty"`
}
