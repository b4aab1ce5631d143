package contrib_test

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	_ "github.com/onward-ml/onward/contrib" // adds the operators of ai.onnx.contrib
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// This example runs a model that begins with a tokenizer.
func Example() {
	vocabulary := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\n!"
	b := onnx.NewModel("text").Opset("", 21).Opset("ai.onnx.contrib", 1)
	b.Input("text", onnx.String, 1).Output("ids", onnx.Int64, "tokens")
	b.Node("BertTokenizer", []string{"text"}, []string{"ids", "types", "mask"}, onnx.Attrs{"vocab_file": vocabulary}).
		Domain("ai.onnx.contrib")
	s, err := onward.OpenModel(context.Background(), b.Must(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	text := tensor.Must(tensor.New([]string{"Hello worlds!"}, 1))
	out, err := s.Run(context.Background(), onward.Values{"text": text}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.MustData[int64](out["ids"].(*tensor.Tensor)))
	// Output: [2 5 6 7 8 3]
}
