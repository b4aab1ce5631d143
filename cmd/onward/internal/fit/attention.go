package fit

import (
	"github.com/onward-ml/onward/tensor"
)

// mask requires ones for the first positions if input k is boolean or an integer.
func (u *use) mask(k int) {
	if u.has(k) {
		if t := u.g.Value(u.n.In[k]).Type.Elem; t == tensor.TypeBool || t.IsInteger() {
			u.need(k, need{mask: true})
		}
	}
}

// maskIndex is mask for the forms of com.microsoft.Attention: a mask, the length of each row, or
// the end and the start of each row.
func (u *use) maskIndex(k, batch, length int) {
	switch s := u.shape(k); {
	case len(s) != 1:
		u.mask(k)
	case s[0] == batch:
		u.need(k, between(1, float64(length)))
	case s[0] == 2*batch:
		if 2*batch > maxContents {
			return
		}
		x := make([]float64, 2*batch)
		for i := range batch {
			x[i] = float64(length)
		}
		u.need(k, exactly(x...))
	default: // lengths, and offsets of queries and keys
		x := make([]float64, min(max(s[0], 0), maxContents))
		for i := range x {
			switch {
			case i < batch:
				x[i] = float64(length)
			case i <= 2*batch:
				x[i] = float64((i - batch) * length)
			default:
				x[i] = float64((i - 2*batch - 1) * length)
			}
		}
		u.need(k, exactly(x...))
	}
}

func embed(u *use) {
	table := 2
	position, mask, ids := 7, 8, 0
	if u.n.OpType == "EmbedLayerNormalization" {
		mask, position = 7, 8
	}
	u.index(ids, table, 0)
	u.index(1, table+2, 0)
	u.mask(mask)
	u.index(position, table+1, 0)
}

func groupQuery(u *use) {
	total := u.dim(0, 1, 1)
	if past := u.dim(3, 2, 0); past > 0 {
		if total = past + total; u.dim(0, 1, 1) > 1 {
			total = max(past, u.dim(0, 1, 1))
		}
	}
	u.need(5, exactly(float64(total-1)))
	u.need(6, exactly(float64(total)))
	u.room(9, u.dim(7, 0, 1)-1)
}

// packed requires the offsets of tokens in a padded batch without padding,
// and the cumulative lengths.
func (u *use) packed(offsets, cumulative int) {
	batch, length := u.dim(offsets, 0, 1), u.dim(offsets, 1, 1)
	if batch < 0 || length < 0 || batch > maxContents || length > maxContents/max(batch, 1) {
		return
	}
	x := make([]float64, batch*length)
	for i := range x {
		x[i] = float64(i)
	}
	u.need(offsets, exactly(x...))
	y := make([]float64, batch+1)
	for i := range y {
		y[i] = float64(min(i*length, u.dim(0, 0, batch*length)))
	}
	u.need(cumulative, exactly(y...))
}
