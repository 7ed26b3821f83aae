// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

// TestCargoesNameWhatThereIs: each name is that of a field or a file, and each of those belongs to
// some kind.
func TestCargoesNameWhatThereIs(t *testing.T) {
	fields, files := slices.Clone(ofAll), []string(nil)
	for _, c := range cargoes {
		fields, files = append(fields, c.fields...), append(files, c.files...)
	}
	for _, x := range []struct {
		of    reflect.Type
		names []string
	}{{reflect.TypeFor[Message](), fields}, {reflect.TypeFor[Files](), files}} {
		var want []string
		for i := range x.of.NumField() {
			want = append(want, x.of.Field(i).Name)
		}
		slices.Sort(want)
		slices.Sort(x.names)
		if got := slices.Compact(x.names); !slices.Equal(got, want) {
			t.Errorf("%v has %v, the kinds %v", x.of, want, got)
		}
	}
}

// TestOnlyWhatAKindHas: a message of an unknown kind, or with a field or a file of another kind,
// isn't taken, and its files are closed.
func TestOnlyWhatAKindHas(t *testing.T) {
	a, b := pair(t)
	before := leaks.Descriptors(t)
	for _, c := range []struct{ json, why string }{
		{`{"kind":"stop","bytes":1}`, "Bytes"},
		{`{"kind":"wake","error":"no"}`, "Error"},
		{`{"kind":"offer","memory":[{"Size":4096}]}`, "Memory"},
		{`{"kind":"drained","files":{"Object":true}}`, "file Object"},
		{`{"kind":"memory","files":{"Gate":true}}`, "file Gate"},
		{`{"kind":"room","files":{"Memory":1}}`, "file Memory"},
		{`{"kind":"rooms"}`, `no message "rooms"`},
		{`{}`, `no message ""`},
	} {
		if _, _, err := a.c.WriteMsgUnix([]byte(c.json), unix.UnixRights(0), nil); err != nil {
			t.Fatal(err)
		}
		m, fds, err := b.Receive()
		if m != nil || fds != nil || err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: message %+v, files %d, error %v", c.json, m, fds, err)
		}
	}
	if after := leaks.Descriptors(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}
