package ops

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestImageDecoderNamesMissingCodec decodes formats whose codecs this test binary does
// not import: the error names the package to import. An unknown format gives an empty
// tensor instead, as the specification says.
func TestImageDecoderNamesMissingCodec(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"\xff\x4f\xff\x51\x00\x2f", `import _ "github.com/onward-ml/onward/imagecodec/jpeg2000"`},
		{"\x00\x00\x00\x0cjP  \r\n\x87\n\x00\x00", `import _ "github.com/onward-ml/onward/imagecodec/jpeg2000"`},
		{"RIFF\x10\x00\x00\x00WEBPVP8 \x04\x00\x00\x00", `import _ "github.com/onward-ml/onward/imagecodec/webp"`},
		{"no image", ""},
	} {
		call := &ir.Call{
			Node: &ir.Node{OpType: "ImageDecoder"}, Env: &optest.Env{Ctx: t.Context(), Limit: optest.MemoryLimit},
			In: []tensor.Value{tensor.Must(tensor.New([]byte(c.data), len(c.data)))}, Out: make([]tensor.Value, 1),
		}
		err := (&ImageDecoder{PixelFormat: "RGB"}).Run(call)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: error %v, want one with %s", c.data, err, c.want)
			}
		case err != nil:
			t.Errorf("%q: %v", c.data, err)
		case call.Out[0].(*tensor.Tensor).Len() != 0:
			t.Errorf("%q: output %v, want an empty image", c.data, call.Out[0])
		}
	}
}
