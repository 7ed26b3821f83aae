// SPDX-License-Identifier: Apache-2.0

package memfd

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMake: a file has the form's name and size for good, where nobody is asked.
func TestMake(t *testing.T) {
	for want, f := range map[string]Form{
		"paracuda-device-2":  {OfDevice, 2, 1 << 30},
		"paracuda-memory-0":  {Created, 0, 8192},
		"paracuda-staging-9": {Staging, 9, 1},
		"paracuda-event":     {Event, 0, 4096},
		"paracuda-stand-in":  {StandIn, 0, 1 << 45},
	} {
		fd, err := Make(f)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		file := os.NewFile(uintptr(fd), want)
		link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil || !strings.HasPrefix(link, "/memfd:"+want+" ") {
			t.Errorf("%s: its name is %q, %v", want, link, err)
		}
		if !Sealed(fd, f.Bytes) || Sealed(fd, f.Bytes+1) {
			t.Errorf("%s: its size isn't for good, or another one", want)
		}
		file.Close()
	}
	if _, err := Make(Form{Kind: 99, Bytes: 1}); !errors.Is(err, ErrForm) {
		t.Errorf("no kind: %v", err)
	}
}

// TestFormOf: what a call's registers say is a form that workers have, or refused.
func TestFormOf(t *testing.T) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	for _, f := range []Form{{OfDevice, 255, 1}, {Created, 0, most}, {StandIn, 0, 1}} {
		got, err := OfCall([6]uint64{1: flags, 2: f.Bytes, 3: f.Word()})
		if err != nil || got != f {
			t.Errorf("%+v: %+v, %v", f, got, err)
		}
	}
	for what, a := range map[string][6]uint64{
		"nothing":          {},
		"huge pages":       {1: flags | unix.MFD_HUGETLB, 2: 4096},
		"code":             {1: flags | unix.MFD_EXEC, 2: 4096},
		"other flags":      {1: 1<<32 | flags, 2: 4096},
		"no bytes":         {1: flags},
		"too many":         {1: flags, 2: most + 1},
		"no kind":          {1: flags, 2: 4096, 3: uint64(lastKind) + 1},
		"a wide word":      {1: flags, 2: 4096, 3: 1 << 16},
		"an event's GPU":   {1: flags, 2: 4096, 3: 1<<8 | uint64(Event)},
		"an event's bytes": {1: flags, 2: 8192, 3: uint64(Event)},
	} {
		if f, err := OfCall(a); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %+v, %v", what, f, err)
		}
	}
}
