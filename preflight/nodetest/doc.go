// Package nodetest makes nodes that do not exist: a tree of kernel files and a
// directory of tools that answer like those of a healthy eight-GPU node with
// eight ionic rails, and the ways in which such a node goes bad. Gathering with
// Root and ToolPath set to them cannot tell the difference. It is for tests and
// labs only.
package nodetest
