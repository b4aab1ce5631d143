package onward_test

import (
	"os"
	"testing"

	_ "github.com/onward-ml/onward/imagecodec/jpeg2000" // decoder for the cases of ImageDecoder
	_ "github.com/onward-ml/onward/imagecodec/webp"
	"github.com/onward-ml/onward/internal/exec"
)

func TestMain(m *testing.M) {
	exec.CrashOnPanic()
	os.Exit(m.Run())
}
