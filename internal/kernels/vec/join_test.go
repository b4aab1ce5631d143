package vec

import (
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("joinGroupsF32")

// TestJoinGroups joins parts of one pixel to more than one call takes, with and without zeros.
func TestJoinGroups(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, pixels := range []int{1, 2, 7, 1025} {
			for zeros := range 16 {
				testkit.Sides(func(side string, s testkit.Side) {
					want, dst := make([]float32, 16*pixels), testkit.Guarded[float32](t, 16*pixels, s, 0)
					var parts [4][]float32
					for k := range parts {
						if zeros>>k&1 != 0 {
							continue
						}
						part := make([]float32, 16*pixels-12) // ends with the last four channels
						for i := range part {
							part[i] = float32(k<<20 + i + 1)
						}
						for p := range pixels {
							copy(want[16*p+4*k:][:4], part[16*p:])
						}
						parts[k] = testkit.GuardedCopy(t, part, s, 0)
					}
					if JoinGroupsF32(l, dst, &parts); !slices.Equal(dst, want) {
						t.Fatalf("%s, %d pixels, zeros %b: got %v, want %v", side, pixels, zeros, dst, want)
					}
				})
			}
		}
	})
}
