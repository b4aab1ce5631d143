//go:build (amd64 || arm64) && !purego

package conv

// secondBlock returns the arguments for the second block of a pair alone.
func (t *tileArgs) secondBlock() tileArgs {
	s := *t
	s.b, s.c = at(t.b, Lanes), at(t.c, t.ldc/4)
	if t.bias != nil {
		s.bias = at(t.bias, Lanes)
	}
	if t.add != nil {
		s.add = at(t.add, t.ldadd/4)
	}
	return s
}
