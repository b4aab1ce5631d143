// Package jpeg2000 makes the operator ImageDecoder decode JPEG 2000 in programs that
// import it:
//
//	import _ "github.com/onward-ml/onward/imagecodec/jpeg2000"
package jpeg2000

import _ "github.com/onward-ml/onward/internal/imagecodec/jpeg2000" // registers the format
