package serve

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pythonOfTextClients returns the Python that make test-clients installs the clients of texts for.
func pythonOfTextClients(t *testing.T) string {
	python := os.Getenv("ONWARD_TEXTCLIENTS")
	if python == "" {
		t.Skip("ONWARD_TEXTCLIENTS is not set: OpenAI's, LangChain's and LlamaIndex's clients are not tested; " +
			"make test-clients does")
	}
	return python
}

// TestTextClients calls the server with OpenAI's, LangChain's, Hugging Face's and LlamaIndex's
// clients.
func TestTextClients(t *testing.T) {
	python := pythonOfTextClients(t)
	rest, _ := listen(t, newServer(t, folders(t, "embedder", "reranker", "classifier"), nil))
	checkClients(t, exec.CommandContext(t.Context(), python, "testdata/text_clients.py", rest))
}

// checkClients runs a program that prints a line for each check.
func checkClients(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	passed := 0
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.HasPrefix(line, "ok "):
			passed++
		case strings.HasPrefix(line, "FAIL "):
			t.Error(line)
		}
	}
	if err != nil || passed == 0 {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%d checks passed", passed)
}

// TestTextOpenAPI sends requests that Schemathesis makes from the OpenAPI file of Text Embeddings
// Inference, and checks status, headers and bodies of the responses against it.
func TestTextOpenAPI(t *testing.T) {
	python := pythonOfTextClients(t)
	api := os.Getenv("ONWARD_TEI_OPENAPI")
	if _, err := os.Stat(api); err != nil {
		t.Skipf("ONWARD_TEI_OPENAPI names no file, so that of Text Embeddings Inference is not checked: %v", err)
	}
	for _, task := range []string{"embedder", "sparse", "reranker", "classifier"} {
		rest, _ := listen(t, newServer(t, folders(t, task), nil))
		// Metrics have an address of their own.
		cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(python), "schemathesis"), "run", api,
			"--url", "http://"+rest, "--no-color", "--seed", "1", "--max-examples", "50", "--exclude-path", "/metrics",
			"--checks",
			"not_a_server_error,content_type_conformance,response_headers_conformance,response_schema_conformance")
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		count := regexp.MustCompile(`(\d+) generated, (\d+) passed`).FindStringSubmatch(string(out))
		if err != nil || count == nil || count[1] != count[2] {
			t.Errorf("%s: %v\n%s", task, err, out)
			continue
		}
		t.Logf("%s: %s requests", task, count[1])
	}
}
