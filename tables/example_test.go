package tables_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/tables"
)

// This example scores the rows of a CSV table. Jobs read and write Parquet, Arrow
// and JSON lines, too.
func ExampleJob() {
	model, err := datasets.Get("logreg_iris.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	sess, err := onward.OpenBytes(context.Background(), model, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()
	rows := "flower,length,width\na,5.1,3.5\nb,6.2,2.9\nc,5.9,3.0\n"
	job := &tables.Job{
		Session: sess,
		Stdin:   strings.NewReader(rows), From: tables.CSV,
		Stdout: os.Stdout, To: tables.CSV,
		Options: tables.Options{
			Bind:    []tables.Binding{{Input: "float_input", Columns: []string{"length", "width"}}},
			Keep:    []string{"flower"},
			Outputs: []string{"output_label"},
		},
	}
	counts, err := job.Run(context.Background())
	fmt.Println(counts.Scored, "rows", err)
	// Output:
	// flower,output_label
	// a,0
	// b,2
	// c,2
	// 3 rows <nil>
}
