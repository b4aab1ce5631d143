package tables

import (
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/file"
)

// verifyColumn verifies column i of a row group of a Parquet file before it is read. For a column
// within a struct, Parquet's reader opens the pages in a goroutine of its own, where a panic ends
// the process: verifyColumn opens them too.
func (p *parquetFile) verifyColumn(group *file.RowGroupReader, i int) error {
	c, err := group.MetaData().ColumnChunk(i)
	if err != nil {
		return err
	}
	size := p.r.ParquetReader().MetaData().GetSourceFileSize()
	if n := c.TotalCompressedSize(); n < 0 || n > size {
		return fmt.Errorf("the column has %d bytes, and the file %d", n, size)
	}
	pages, err := group.GetColumnPageReader(i)
	if err != nil {
		return err
	}
	return pages.Close()
}
