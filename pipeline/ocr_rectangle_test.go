package pipeline

import (
	"math"
	"slices"
	"testing"
)

// TestCornersOf compares with corners and shorter sides of OpenCV 4.10's minAreaRect and boxPoints:
// exactly for upright rectangles, of which some are below whole numbers.
func TestCornersOf(t *testing.T) {
	for _, c := range []struct {
		points [4]pixel
		want   [4]Point
		side   float32
		most   float64 // difference
	}{
		{[4]pixel{{253, 615}, {335, 615}, {335, 625}, {253, 625}},
			[4]Point{{253, 614.99994}, {335, 614.99994}, {335, 624.99994}, {253, 624.99994}}, 9.999998, 0},
		{[4]pixel{{451, 335}, {695, 335}, {695, 373}, {451, 373}},
			[4]Point{{451, 334.99997}, {695, 334.99997}, {695, 372.99997}, {451, 372.99997}}, 37.999992, 0},
		{[4]pixel{{105, 0}, {423, 0}, {423, 22}, {105, 22}},
			[4]Point{{105, 0}, {422.99994, 0}, {422.99994, 21.999996}, {105, 21.999996}}, 21.999996, 0},
		{[4]pixel{{10, 20}, {110, 31}, {108, 50}, {8, 39}},
			[4]Point{{10, 20}, {110.08894, 31.00978}, {108, 50}, {7.911079, 38.99022}}, 19.104767, 1e-4},
		{[4]pixel{{5, 7}, {5, 7}, {5, 7}, {5, 7}}, [4]Point{{5, 7}, {5, 7}, {5, 7}, {5, 7}}, 0, 0},
		{[4]pixel{{5, 7}, {9, 7}, {7, 7}, {5, 7}}, [4]Point{{5, 7}, {9, 7}, {9, 7}, {5, 7}}, 0, 0},
	} {
		got, side := cornersOf(slices.Clone(c.points[:]))
		worst := math.Abs(float64(side) - float64(c.side))
		for i, p := range got {
			worst = max(worst, math.Abs(float64(p.X)-float64(c.want[i].X)), math.Abs(float64(p.Y)-float64(c.want[i].Y)))
		}
		if worst > c.most {
			t.Errorf("%v: got %v and %v, want %v and %v", c.points, got, side, c.want, c.side)
		}
	}
}
