//go:build !purego

package vec

// rowSteps returns the rows of 16 entries of t, each but the first of both halves as its difference
// from the row before.
func rowSteps(t *[256]uint8) (rows [256]uint8) {
	for i, v := range t {
		if i&0x7f >= 16 {
			v ^= t[i-16]
		}
		rows[i] = v
	}
	return rows
}
