package opfuzz

import "testing"

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
