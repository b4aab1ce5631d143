package serve

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// badInputs names the tests of what a server must survive.
var badInputs = map[string][]string{
	"slow clients":                              {"TestSlowClients"},
	"tiny chunks":                               {"TestContentLengths"},
	"gzip bombs":                                {"TestGzipBomb", "TestCompressedMessages"},
	"bodies over the limit":                     {"TestBodyLimit"},
	"wrong Content-Length":                      {"TestContentLengths"},
	"header length beyond the body":             {"TestBinaryDataSizes"},
	"shape and type that do not match bytes":    {"TestBinaryDataSizes", "TestBadMessages", "FuzzDecodeRaw"},
	"lengths of BYTES":                          {"TestBinaryDataSizes", "FuzzDecodeRaw"},
	"duplicate, missing, extra, misspelt":       {"TestInputsAndOutputsOfRequests", "TestBadMessages"},
	"JSON depth of 100,000":                     {"TestJSONDepth"},
	"1e999":                                     {"TestNumbersOutOfRange", "TestBinaryDataSizes"},
	"integers over 2^53":                        {"TestNumbersOutOfRange"},
	"broken JSON":                               {"TestBadJSON", "FuzzDecodeInfer"},
	"broken messages":                           {"TestBadMessages", "FuzzDecodeMessage"},
	"broken configurations":                     {"TestConfigErrors", "FuzzConfig"},
	"model names with ../":                      {"TestModelNames"},
	"load and unload races":                     {"TestLoadAndUnloadRaces", "TestReloadLosesNoRequest"},
	"batches that mix requests":                 {"TestBadRequestDoesNotSpoilItsBatch", "TestIncompatibleRequestsAreNotBatched"},
	"floods of metric labels and kept errors":   {"TestMetricLabelFlood", "TestLastErrors"},
	"too many requests, and too large ones":     {"TestTooManyRequests", "TestMemoryOfARun", "TestMemoryOfAllRequests", "TestQueueSizeAndTimeout"},
	"clients that go away":                      {"TestClientGoneIsCancelled", "TestBatchOutlivesOneClient"},
	"generated requests":                        {"TestKServeOpenAPI"},
	"requests that decode to much more":         {"TestDecodingJSONKeepsTheMemory", "TestDecodingMessagesKeepsTheMemory"},
	"unfinished messages":                       {"TestUnfinishedMessages", "TestTimeoutBeginsWithTheRequest"},
	"calls without a token":                     {"TestCallsWithoutTokenAreRefusedUnread"},
	"pages of other sites":                      {"TestRequestsOfOtherSites"},
	"members in other case, and twice":          {"TestJSONMembersAreExact"},
	"sparse external data":                      {"TestPollingSparseExternalData"},
	"shutdown under load (in package main too)": {"TestShutdownUnderLoad"},
}

// TestBadInputsHaveTests checks that the tests of badInputs exist.
func TestBadInputsHaveTests(t *testing.T) {
	have := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../cmd/onward/serve*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					have[fn.Name.Name] = true
				}
			}
		}
	}
	for input, tests := range badInputs {
		for _, name := range tests {
			if !have[name] {
				t.Errorf("%s: there is no test %s", input, name)
			}
		}
	}
}
