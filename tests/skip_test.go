// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"testing"
)

// skip skips a test and prints why, which go test itself does with -v only.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	fmt.Printf("%s skipped: %s\n", t.Name(), why)
	t.Skip(why)
}
