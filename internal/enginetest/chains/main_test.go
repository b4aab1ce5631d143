package chains

import (
	"testing"

	"github.com/onward-ml/onward/internal/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }
