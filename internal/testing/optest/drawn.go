package optest

import (
	"testing"

	"pgregory.net/rapid"
)

// Drawn returns t with the failures reported to rt, so that rapid finds the smallest
// drawn values that fail.
func Drawn(t testing.TB, rt *rapid.T) testing.TB { return drawn{t, rt} }

type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Error(args ...any)                 { d.rt.Error(args...) }
func (d drawn) Errorf(format string, args ...any) { d.rt.Errorf(format, args...) }
func (d drawn) Fatal(args ...any)                 { d.rt.Fatal(args...) }
func (d drawn) Fatalf(format string, args ...any) { d.rt.Fatalf(format, args...) }
func (d drawn) Fail()                             { d.rt.Fail() }
func (d drawn) FailNow()                          { d.rt.FailNow() }
func (d drawn) Failed() bool                      { return d.rt.Failed() }
