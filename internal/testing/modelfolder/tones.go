package modelfolder

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/onward-ml/onward/onnx"
)

// Tones returns a WAV file in which the models "transducer", "stream", "nemo" and "nemo-ctc" hear a
// word for each l (a low tone) and h (a high tone) of a text of these letters and _ (silence).
func Tones(text string) []byte {
	var samples []int16
	for _, tone := range text {
		hz := map[rune]float64{'l': 320, 'h': 3900}[tone]
		for i := range 3200 {
			loud := 9000 * math.Sin(math.Pi*float64(i)/3200)
			samples = append(samples, int16(loud*math.Sin(2*math.Pi*hz*float64(i)/16000)))
		}
	}
	return wav(samples)
}

const toneBands = 80

// writeTones writes a folder of a kind of model that hears tones in features: a token is likely if
// its bands have energy, and if it is not the one before.
func writeTones(dir, kind string) error {
	bands, blank, time := [2]int{9, 58}, 0, 1 // time is the axis of features that counts frames
	bias := []float32{0, 0, 0, -1e6}
	if kind == "nemo" || kind == "nemo-ctc" {
		bands, blank, time = [2]int{5, 57}, 3, 2
		bias = []float32{0, 0, -1e6, 0.5}
	}
	low := (blank + 1) % 4 // the tokens low and high follow the blank
	weights, repeats := make([]float32, toneBands*4), make([]float32, 4*toneBands)
	for i, first := range bands {
		for b := first; b < first+3; b++ {
			weights[b*4+low+i] = 1. / 3
			repeats[(low+i)*toneBands+b] = -1000
		}
	}
	features := func(name string) *onnx.ModelBuilder { // encoded: every fourth or eighth frame
		b := onnx.NewModel(name).Opset("", 21)
		b.Initializer("start", []int64{0}, 1).Initializer("end", []int64{math.MaxInt32}, 1)
		b.Initializer("axis", []int64{int64(time)}, 1).Initializer("step", []int64{int64(4 * time)}, 1)
		return b
	}
	head := func(b *onnx.ModelBuilder, in, out string) {
		b.Initializer("weights", weights, toneBands, 4).Initializer("bias", bias, 4)
		b.Node("MatMul", []string{in, "weights"}, []string{"product"})
		b.Node("Add", []string{"product", "bias"}, []string{out})
	}
	slice := []string{"start", "end", "axis", "step"}
	k2, nemo := "<blk> 0\n▁low 1\n▁high 2\n<unk> 3\n", "▁low 0\n▁high 1\n<unk> 2\n<blk> 3\n"
	switch kind {
	case "transducer":
		b := features("encoder")
		b.Input("x", onnx.Float, "N", "T", toneBands).Input("x_lens", onnx.Int64, "N")
		b.Node("Slice", append([]string{"x"}, slice...), []string{"encoder_out"})
		b.Initializer("four", []int64{4}, 1).Initializer("three", []int64{3}, 1)
		b.Node("Add", []string{"x_lens", "three"}, []string{"more"})
		b.Node("Div", []string{"more", "four"}, []string{"encoder_out_lens"})
		b.Output("encoder_out", onnx.Float, "N", "S", toneBands).Output("encoder_out_lens", onnx.Int64, "N")
		return writeK2(dir, b, repeats, head, k2)
	case "stream":
		b := features("encoder")
		b.Metadata("decode_chunk_len", "32").Metadata("T", "39").Metadata("model_type", "zipformer2")
		b.Input("x", onnx.Float, "N", 39, toneBands).Input("processed_lens", onnx.Int64, "N")
		b.Initializer("size", []int64{32}, 1)
		b.Node("Slice", []string{"x", "start", "size", "axis", "step"}, []string{"encoder_out"})
		b.Node("Add", []string{"processed_lens", "size"}, []string{"new_processed_lens"})
		b.Output("encoder_out", onnx.Float, "N", 8, toneBands).Output("new_processed_lens", onnx.Int64, "N")
		return writeK2(dir, b, repeats, head, k2)
	case "nemo-ctc":
		b := features("ctc")
		b.Input("audio_signal", onnx.Float, "N", toneBands, "T").Input("length", onnx.Int64, "N")
		b.Node("Slice", append([]string{"audio_signal"}, slice...), []string{"sliced"})
		b.Node("Transpose", []string{"sliced"}, []string{"encoded"}, onnx.Attrs{"perm": []int64{0, 2, 1}})
		head(b, "encoded", "logprobs")
		b.Output("logprobs", onnx.Float, "N", "S", 4)
		return writeParts(dir, map[string]*onnx.ModelBuilder{"model": b}, "vocab.txt", nemo)
	case "nemo":
		b := features("encoder")
		b.Input("audio_signal", onnx.Float, "N", toneBands, "T").Input("length", onnx.Int64, "N")
		b.Node("Slice", append([]string{"audio_signal"}, slice...), []string{"outputs"})
		b.Initializer("eight", []int64{8}, 1).Initializer("seven", []int64{7}, 1)
		b.Node("Add", []string{"length", "seven"}, []string{"more"})
		b.Node("Div", []string{"more", "eight"}, []string{"encoded_lengths"})
		b.Output("outputs", onnx.Float, "N", toneBands, "S").Output("encoded_lengths", onnx.Int64, "N")
		d := onnx.NewModel("decoder").Opset("", 21)
		d.Input("encoder_outputs", onnx.Float, "N", toneBands, "S").Input("targets", onnx.Int32, "N", "U")
		d.Input("target_length", onnx.Int32, "N")
		d.Initializer("table", repeats, 4, toneBands)
		d.Node("Transpose", []string{"encoder_outputs"}, []string{"encoded"}, onnx.Attrs{"perm": []int64{0, 2, 1}})
		d.Node("Gather", []string{"table", "targets"}, []string{"decoded"})
		d.Node("Add", []string{"encoded", "decoded"}, []string{"joined"})
		head(d, "joined", "outputs")
		d.Output("outputs", onnx.Float, "N", "S", 4)
		for _, i := range []string{"1", "2"} {
			d.Input("input_states_"+i, onnx.Float, 1, "N", 2).Output("output_states_"+i, onnx.Float, 1, "N", 2)
			d.Node("Identity", []string{"input_states_" + i}, []string{"output_states_" + i})
		}
		return writeParts(dir, map[string]*onnx.ModelBuilder{"encoder-model": b, "decoder_joint-model": d}, "vocab.txt",
			nemo)
	}
	return fmt.Errorf("modelfolder: there is no model %q", kind)
}

// writeK2 writes an encoder with its decoder and joiner.
func writeK2(dir string, encoder *onnx.ModelBuilder, repeats []float32,
	head func(b *onnx.ModelBuilder, in, out string), tokens string) error {
	d := onnx.NewModel("decoder").Opset("", 21).Metadata("context_size", "2")
	d.Input("y", onnx.Int64, "N", 2)
	d.Initializer("table", repeats, 4, toneBands).Initializer("axis", []int64{1}, 1).Initializer("last", []int64{1}, 1)
	d.Node("Gather", []string{"y", "last"}, []string{"token"}, onnx.Attrs{"axis": 1})
	d.Node("Squeeze", []string{"token", "axis"}, []string{"flat"})
	d.Node("Gather", []string{"table", "flat"}, []string{"decoder_out"})
	d.Output("decoder_out", onnx.Float, "N", toneBands)
	j := onnx.NewModel("joiner").Opset("", 21)
	j.Input("encoder_out", onnx.Float, "N", toneBands).Input("decoder_out", onnx.Float, "N", toneBands)
	j.Node("Add", []string{"encoder_out", "decoder_out"}, []string{"joined"})
	head(j, "joined", "logit")
	j.Output("logit", onnx.Float, "N", 4)
	return writeParts(dir, map[string]*onnx.ModelBuilder{"encoder": encoder, "decoder": d, "joiner": j}, "tokens.txt",
		tokens)
}

// writeParts writes the models of a folder and a text file.
func writeParts(dir string, parts map[string]*onnx.ModelBuilder, file, text string) error {
	for name, b := range parts {
		m, err := b.Model()
		if err != nil {
			return err
		}
		if err := onnx.WriteFile(filepath.Join(dir, name+".onnx"), m, nil); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}
