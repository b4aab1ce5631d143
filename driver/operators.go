package driver

import (
	"slices"
	"sync"
)

var operators struct {
	sync.RWMutex
	list []CustomOperator
}

// RegisterOperators makes custom operators available to all sessions that open later. It
// is called by init functions, so that a blank import adds a package of operators.
// [Options.CustomOperators] replace registered operators of the same domain and name. It
// panics if an operator of that domain, name and version is registered.
func RegisterOperators(list ...CustomOperator) {
	operators.Lock()
	defer operators.Unlock()
	for _, o := range list {
		if slices.ContainsFunc(operators.list, func(r CustomOperator) bool {
			return r.Domain == o.Domain && r.Name == o.Name && max(r.Since, 1) == max(o.Since, 1)
		}) {
			panic("driver: operator " + o.Domain + "." + o.Name + " is registered twice")
		}
		operators.list = append(operators.list, o)
	}
}

// RegisteredOperators returns the operators of [RegisterOperators].
func RegisteredOperators() []CustomOperator {
	operators.RLock()
	defer operators.RUnlock()
	return slices.Clone(operators.list)
}
