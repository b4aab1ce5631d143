package goengine

import (
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// TestFewElementsAreAnalyzedBeside checks that the first run with few elements does not wait for
// the analysis of their shape, that the second one does, and that the caller may change the inputs
// of the first run after it.
func TestFewElementsAreAnalyzedBeside(t *testing.T) {
	e := freeEngine(t, rateModel(), &driver.Options{}, 1<<40)
	s := e.special
	s.one <- struct{}{} // no plan is compiled
	first := rateInputs(8, 16000)
	if s.program(t.Context(), first) != nil {
		t.Fatal("the first run has a plan of its own")
	}
	tensor.MustData[int64](first[1].(*tensor.Tensor))[0] = 8000
	wantPlan(t, e, driver.GeneralPlan, rateInputs(8, 16000)...)
	s.mu.Lock()
	if len(s.shapes) != 1 {
		t.Errorf("%d shapes are known, want 1", len(s.shapes))
	}
	for key, sh := range s.shapes {
		if sh.gain <= 0 || sh.credit != 2*sh.gain || sh.refused {
			t.Errorf("shape %q: gain %d, credit %d, refused %t, want the gains of two runs", key, sh.gain, sh.credit,
				sh.refused)
		}
	}
	s.mu.Unlock()
	<-s.one
	s.cost = 0
	wantPlan(t, e, "x=1x1x8, rate=16000", rateInputs(8, 16000)...)
}

// TestManyElementsAreAnalyzedFirst checks that a run waits for the analysis of a shape that may be
// worth a plan at once.
func TestManyElementsAreAnalyzedFirst(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{}, 1<<40)
	e.special.cost = inputTime * int64(imageOf(1, 12, 12).Len())
	e.special.program(t.Context(), []tensor.Value{imageOf(1, 12, 12)})
	e.special.mu.Lock()
	defer e.special.mu.Unlock()
	for key, sh := range e.special.shapes {
		if sh.gain < 0 {
			t.Errorf("the gain of shape %q is not known after the run", key)
		}
	}
}
