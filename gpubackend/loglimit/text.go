// SPDX-License-Identifier: Apache-2.0

package loglimit

import (
	"fmt"
	"io"

	"github.com/sirupsen/logrus"
)

// Lengths of a line's values. Stacks come from the process itself, not from a guest.
const (
	maxText  = 512
	maxStack = 64 << 10
)

// maxOf is how long a field may be.
func maxOf(field string) int {
	if field == "stack" || field == "stacks" {
		return maxStack
	}
	return maxText
}

// bounded is a copy of an entry with values that are cut. The original may be in use elsewhere.
func bounded(e *logrus.Entry) *logrus.Entry {
	b := &logrus.Entry{
		Logger: e.Logger, Data: make(logrus.Fields, len(e.Data)), Time: e.Time, Level: e.Level,
		Caller:  e.Caller,
		Message: cut(e.Message, maxText), Buffer: e.Buffer, Context: e.Context,
	}
	for field, value := range e.Data {
		switch v := value.(type) {
		case string:
			value = cut(v, maxOf(field))
		case bool, int, int32, int64, uint32, uint64, float64:
		default:
			value = cut(fmt.Sprint(v), maxOf(field))
		}
		b.Data[field] = value
	}
	return b
}

func cut(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return fmt.Sprintf("%s... and %d bytes", s[:bytes], len(s)-bytes)
}

// nonEmpty saves the system call for a line that was held back.
type nonEmpty struct{ io.Writer }

func (w nonEmpty) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return w.Writer.Write(b)
}
