package opfuzz

import (
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// noSteps finds a recurrent network with an initial state and a sequence of no steps.
func noSteps(c *Case) bool {
	lens := c.Tensor(4)
	return lens != nil && slices.Contains(tensor.Of[int32](lens), 0) && c.Tensor(5) != nil
}

func setNoSteps(c *Case) {
	x, w := c.Tensor(0), c.Tensor(2)
	if x == nil || w == nil || c.Int("layout", 0) != 0 {
		return
	}
	for len(c.In) < 6 {
		c.In = append(c.In, nil)
	}
	batch := x.Dim(1)
	c.In[4] = tensor.Must(tensor.Zeros(tensor.TypeInt32, batch))
	h := tensor.Must(tensor.Zeros(tensor.TypeFloat32, w.Dim(0), batch, w.Dim(2)))
	for i := range tensor.Of[float32](h) {
		tensor.Of[float32](h)[i] = 0.5
	}
	if y := tensor.Must(tensor.Zeros(x.DType(), h.Shape()...)); tensor.ConvertInto(y, h, tensor.ConvertOptions{}) == nil {
		c.In[5] = y
	}
}

// splitsNothing finds a StringSplit of an empty string at a delimiter.
func splitsNothing(c *Case) bool {
	return c.Text("delimiter", "") != "" && slices.Contains(tensor.Of[string](c.Tensor(0)), "")
}

func setSplitsNothing(c *Case) {
	x := c.Tensor(0).Clone()
	if x.Len() > 0 {
		tensor.Of[string](x)[0] = ""
	}
	c.In[0] = x
	c.set("delimiter", ";")
}

func setTrailingSpace(c *Case) {
	x := c.Tensor(0).Clone()
	if x.Len() > 0 {
		tensor.Of[string](x)[0] = "a b "
	}
	c.In[0] = x
	c.set("delimiter", "").set("maxsplit", int64(1))
}

// votesForBoth finds a classifier of two labels with weights for both classes.
func votesForBoth(c *Case) bool {
	labels := 0
	for _, name := range []string{"classlabels_int64s", "classlabels_strings"} {
		if a := c.Attr(name); a != nil {
			labels += len(a.Ints) + len(a.Strings)
		}
	}
	ids := c.Attr("class_ids")
	return labels == 2 && ids != nil && slices.Contains(ids.Ints, 0) && slices.Contains(ids.Ints, 1)
}

func setVotesForBoth(c *Case) {
	if a := c.Attr("class_ids"); a != nil && len(a.Ints) > 1 {
		ids := make([]int64, len(a.Ints))
		ids[0] = 1
		c.set("class_ids", ids)
	}
}
