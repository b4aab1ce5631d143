package pipeline

import (
	"slices"
	"strings"
	"testing"
)

// TestImageEmbedderOfImages checks which outputs of models without texts are vectors.
func TestImageEmbedderOfImages(t *testing.T) {
	hidden := map[string][]float32{"last_hidden_state": {3, 4, 5, 6}}
	both := map[string][]float32{"last_hidden_state": {3, 4, 5, 6}, "pooler_output": {0, -2}}
	shapes := map[string][]int64{"last_hidden_state": {1, 2, 2}, "pooler_output": {1, 2}}
	for _, c := range []struct {
		kind    string // and more of config.json
		outputs map[string][]float32
		want    []float32
		err     string
	}{
		{`"dinov2"`, hidden, []float32{0.6, 0.8}, ""},
		{`"dinov2"`, both, []float32{0, -1}, ""},
		{`"vit"`, both, []float32{0, -1}, ""},
		{`"vit"`, hidden, nil, "no pooler_output"},
		{`"bert"`, hidden, nil, `model_type is "bert"`},
		{`"siglip"`, hidden, nil, "tokenizer"},
		{`"siglip", "text_config": {"max_position_embeddings": 1000000000}`, hidden, nil, "1000000000, want 1 to 65536"},
	} {
		dir := queriesFolder(t, `{"model_type": `+c.kind+`}`, c.outputs, shapes)
		e, err := OpenImageEmbedder(t.Context(), dir, nil)
		var got []float32
		if err == nil {
			defer e.Close()
			got, err = e.EmbedImage(t.Context(), small())
			if _, err := e.EmbedText(t.Context(), "a cat"); err == nil {
				t.Errorf("%s: no error for a text", c.kind)
			}
		}
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, error %v, want %v, %q", c.kind, got, err, c.want, c.err)
		}
	}
}
