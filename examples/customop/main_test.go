package main

import (
	"strings"
	"testing"
)

func TestDistances(t *testing.T) {
	from := [][2]float32{{48.8566, 2.3522}, {0, 0}, {0, 0}, {90, 0}}
	to := [][2]float32{{41.9028, 12.4964}, {0, 0}, {0, 90}, {-90, 0}}
	want := []float32{1105, 0, 10007, 20015} // a quarter and half of the circumference
	got, err := distances(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if d := got[i] - want[i]; d < -1 || d > 1 {
			t.Errorf("%v to %v: got %v km, want %v", from[i], to[i], got[i], want[i])
		}
	}
}

func TestUnequalPoints(t *testing.T) {
	_, err := distances(t.Context(), make([][2]float32, 3), make([][2]float32, 2))
	if err == nil || !strings.Contains(err.Error(), "3 points") && !strings.Contains(err.Error(), "Haversine") {
		t.Errorf("got %v, want an error of Haversine", err)
	}
}
