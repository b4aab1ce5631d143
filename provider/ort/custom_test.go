package ort

import (
	"errors"
	"testing"
)

// TestDomainsAreAddedAlone checks that no other session is created beside the first one with
// operators of a source, and that later ones do not wait for each other.
func TestDomainsAreAddedAlone(t *testing.T) {
	with := func(ep *executionProvider, options map[string]string) *settings {
		return &settings{ep: ep, common: options}
	}
	var d domains
	for i, c := range []struct {
		o      *settings
		custom *customDomains
		fails  error
		alone  bool
	}{
		{o: with(cpu, nil)},
		{o: with(tensorRT, nil), fails: errors.New("no GPU"), alone: true},
		{o: with(tensorRT, nil), alone: true},
		{o: with(tensorRT, nil)},
		{o: with(cpu, map[string]string{"custom_op_libraries": "a.so"}), alone: true},
		{o: with(cpu, map[string]string{"custom_op_libraries": "b.so"}), alone: true},
		{o: with(cpu, map[string]string{"custom_op_libraries": "a.so"})},
		{o: with(cpu, nil), custom: &customDomains{}, alone: true},
		{o: with(cpu, nil), custom: &customDomains{}},
		{o: with(cpu, map[string]string{namedProvider: "XProvider"}), alone: true},
		{o: with(cpu, map[string]string{namedProvider: "XProvider"})},
	} {
		called := false
		err := d.create(c.o, c.custom, func() error {
			called = true
			beside := d.TryRLock() // as another call of create would
			if beside {
				d.RUnlock()
			}
			if beside == c.alone {
				t.Errorf("session %d: another is created beside it: %t", i, beside)
			}
			return c.fails
		})
		if !called || err != c.fails {
			t.Errorf("session %d: called %t, %v", i, called, err)
		}
	}
}
