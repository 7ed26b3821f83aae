// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// FuzzFacts: what another process has left is refused with the reason, or is within all bounds and
// reads the same after this process has written it.
func FuzzFacts(f *testing.F) {
	all := Facts{Generation: 1, Sequence: 2, Suspended: true, Ordered: true, Protocol: 3,
		InFile: []byte("file"), Settings: []string{"a=b", "c=d"}}
	f.Add(all.append(nil))
	pages := all
	pages.Vouchers = 1 << 33
	f.Add(pages.append(nil))
	f.Add((&Facts{Vouchers: 4096, Between: 5}).append(nil))
	f.Add([]byte("\x02\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00" +
		"\x04\x00\x00\x00a=b\n"))
	f.Add((&Facts{Settings: []string{"a=b"}}).append(nil))
	f.Add([]byte("\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00a=b\n"))
	f.Add(bytes.Replace(all.append(nil), []byte("\x04\x00\x00\x00file"),
		[]byte("\xff\xff\xff\xfffile"), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var x Facts
		if err := x.parse(b); err != nil {
			if !errors.Is(err, ErrFacts) {
				t.Fatal(err)
			}
			return
		}
		text := 0
		for _, s := range x.Settings {
			text += len(s) + 1
		}
		if text > maxText || len(x.Settings) > maxSettings || len(x.InFile) > maxFile ||
			x.InFile != nil && len(x.InFile) == 0 {
			t.Fatalf("%d settings of %d bytes, a file of %d", len(x.Settings), text, len(x.InFile))
		}
		var again Facts
		if err := again.parse(x.append(nil)); err != nil || !reflect.DeepEqual(again, x) {
			t.Fatalf("%+v is read again as %+v, %v", x, again, err)
		}
	})
}
