package opfuzz

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/suite"
)

// TestDifferencesHaveWitnesses demands a valid case for each operator of each entry: an
// entry whose condition no case meets explains nothing.
func TestDifferencesHaveWitnesses(t *testing.T) {
	seeds, err := Load("../../..", suite.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Differences {
		for _, op := range d.Ops {
			found := false
			for range d.Witnesses(op, seeds) {
				found = true
				break
			}
			if !found {
				t.Errorf("%s: no case meets the condition %q", op, d.What)
			}
		}
	}
	never := Difference{Ops: []string{"Add"}, When: func(*Case) bool { return false }}
	for range never.Witnesses("Add", seeds) {
		t.Error("a condition that never holds has a witness")
	}
}

// TestMissesParameter looks for the values of activation functions as the recurrent
// operators consume them: in order, and only those functions that have parameters.
func TestMissesParameter(t *testing.T) {
	for _, tt := range []struct {
		name        string
		activations []string
		alpha, beta []float32
		of          string
		want        bool
	}{
		{"default activations", nil, nil, nil, "thresholdedrelu", false},
		{"no alpha", []string{"ThresholdedRelu"}, nil, nil, "thresholdedrelu", true},
		{"alpha", []string{"ThresholdedRelu"}, []float32{0.5}, nil, "thresholdedrelu", false},
		{"beta alone", []string{"ScaledTanh"}, nil, []float32{0.125}, "scaledtanh", true},
		{"alpha alone", []string{"ScaledTanh"}, []float32{0.5}, nil, "scaledtanh", true},
		{"both", []string{"ScaledTanh"}, []float32{0.5}, []float32{0.125}, "scaledtanh", false},
		{"behind one without", []string{"Tanh", "Elu"}, []float32{0.5}, nil, "elu", false},
		{"the second of two", []string{"Elu", "LeakyRelu"}, []float32{0.5}, nil, "leakyrelu", true},
		{"another function", []string{"Elu"}, nil, nil, "leakyrelu", false},
	} {
		c := newCase()
		if tt.activations != nil {
			c.set("activations", tt.activations)
		}
		if tt.alpha != nil {
			c.set("activation_alpha", tt.alpha)
		}
		if tt.beta != nil {
			c.set("activation_beta", tt.beta)
		}
		if got := missesParameter(c, tt.of); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
