package backendtest

import (
	"context"

	"github.com/onward-ml/onward/onnx"
)

// Load reads the model and the data sets of a case that needs no download.
func (c *TestCase) Load(ctx context.Context) (*onnx.Model, []DataSet, error) {
	return (&Runner{}).load(ctx, c)
}
