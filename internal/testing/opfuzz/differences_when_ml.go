package opfuzz

import (
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// splitsNothing finds a StringSplit of an empty string at a delimiter.
func splitsNothing(c *Case) bool {
	return c.Text("delimiter", "") != "" && slices.Contains(tensor.MustData[string](c.Tensor(0)), "")
}

func setSplitsNothing(c *Case) {
	x := c.Tensor(0).Clone()
	if x.Len() > 0 {
		tensor.MustData[string](x)[0] = ""
	}
	c.In[0] = x
	c.set("delimiter", ";")
}

func setTrailingSpace(c *Case) {
	x := c.Tensor(0).Clone()
	if x.Len() > 0 {
		tensor.MustData[string](x)[0] = "a b "
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
