package goengine

import "github.com/onward-ml/onward/driver"

// Kinds returns the operators of an engine's graph in the order in which they run.
func Kinds(e driver.Engine) []string {
	var r []string
	for _, n := range e.(*engine).general.graph.Nodes {
		r = append(r, n.OpType)
	}
	return r
}
