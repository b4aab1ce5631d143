package ir

// Kept returns memory for a T that outlives [Operator.Run], such as the arguments of a kernel. If
// the call belongs to a binding, each run gets the same memory, with what the last run left in it:
// the first Kept of a run gets that of the first Kept of the last run, and so on. It must not be
// called by kernels.
func Kept[T any](c *Call) *T {
	if !c.Bound || c.Capturing { // captured kernels hold their arguments
		return new(T)
	}
	if c.next < len(c.kept) {
		if p, ok := c.kept[c.next].(*T); ok {
			c.next++
			return p
		}
	}
	p := new(T)
	c.kept = append(c.kept[:c.next], p)
	c.next++
	return p
}

// Ints returns n zeros, such as the dimensions of a shape, for [Operator.Run] and its launches. The
// next run of the call gets the same memory. It must not be called by kernels.
func (c *Call) Ints(n int) []int {
	const most = 64 // longer lists are not kept
	if n > most || c.Capturing {
		return make([]int, n)
	}
	at := len(c.ints)
	if at+n > cap(c.ints) {
		at, c.ints = 0, make([]int, 0, max(16, 2*(at+n)))
	}
	c.ints = c.ints[:at+n]
	r := c.ints[at : at+n : at+n]
	clear(r)
	return r
}

// Section is the work of a parallel section, as a type instead of a function: a function and its
// variables are allocated in each run.
type Section[T any] interface {
	*T
	Do(lo, hi int)
}

// keptSection is a section and its method as a function.
type keptSection[T any] struct {
	section T
	do      func(lo, hi int)
}

// Do returns the function of a section for [Call.Parallel] and [Call.Launch]. It is [Kept].
func Do[T any, S Section[T]](c *Call, section T) func(lo, hi int) {
	k := Kept[keptSection[T]](c)
	if k.section = section; k.do == nil {
		k.do = S(&k.section).Do
	}
	return k.do
}
