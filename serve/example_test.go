package serve_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/serve"
)

// This example serves a model over REST. A program serves Handler with an http.Server, see
// [serve.HTTPServer].
func ExampleNew() {
	data, err := datasets.Get("mul_1.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := serve.New(context.Background(), "", &serve.Options{Models: []serve.Model{{Name: "squares", Data: data}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	request := `{"inputs": [{"name": "X", "datatype": "FP32", "shape": [3, 2], "data": [1, 2, 3, 4, 5, 6]}]}`
	response, err := http.Post(web.URL+"/v2/models/squares/infer", "application/json", strings.NewReader(request))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.Status, strings.TrimSpace(string(body)), err)
	// Output: 200 OK {"model_name":"squares","model_version":"1","outputs":[{"name":"Y","datatype":"FP32","shape":[3,2],"data":[1,4,9,16,25,36]}]} <nil>
}
