package vec

import "github.com/onward-ml/onward/internal/cpu"

// BoxGroup holds 16 boxes: their smallest and largest coordinates, and their areas.
type BoxGroup struct{ Y0, X0, Y1, X1, Area [16]float32 }

// HasBoxes reports whether [Overlap] has a kernel for the level.
func HasBoxes(l cpu.Level) bool { return l == cpu.AVX512 }

// Overlap returns the first of the groups with a box whose intersection with a box, [y0, x0, y1,
// x1, area], is at least limit times their union, and len(groups) if there is none. Boxes with NaN
// may count too. The limit is greater than 0. A level without a kernel returns 0.
func Overlap(l cpu.Level, groups []BoxGroup, box *[5]float32, limit float32) int {
	const part = chunk / 16
	for from := 0; HasBoxes(l) && from < len(groups); from += part {
		now := groups[from:min(len(groups), from+part)]
		if at := overlap(now, box, limit); at < len(now) {
			return from + at
		}
	}
	if HasBoxes(l) {
		return len(groups)
	}
	return 0
}
