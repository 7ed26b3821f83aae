// SPDX-License-Identifier: Apache-2.0

package xid

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// TestXidsAreRead: what the driver says of GPUs that are broken, and nothing else.
func TestXidsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := os.WriteFile(path, []byte(`6,1,100,-;Linux version 6.12
4,2,5000000,-;NVRM: Xid (PCI:0000:65:00): 31, pid=77, name=python3, Ch 00000008, MMU Fault
4,3,7000000,-;NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, `+
		`GPU has fallen off the bus.
 SUBSYSTEM=pci
4,4,7000001,-;NVRM: Xid (PCI:0001:c1:00): 48, pid=12, name=a, DBE (double bit error)`+"\x1b[2J"+`
4,5,7000002,-;NVRM: Xid (PCI:0000:65:00): 119, Timeout after 6s of waiting for RPC response
4,6,7000003,-;NVRM: Xid (PCI:zz): 79, nothing
4,7,7000004,-;NVRM: GPU at PCI:0000:65:00: GPU-0001
NVRM: Xid (PCI:0000:65:00): 79, without a head
`), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Message{
		{pcie.Address{Bus: 0x65}, 79, "GPU has fallen off the bus.", 7 * time.Second},
		{pcie.Address{Domain: 1, Bus: 0xc1}, 48, "DBE (double bit error)?[2J",
			7*time.Second + time.Microsecond},
		{pcie.Address{Bus: 0x65}, 119, "Timeout after 6s of waiting for RPC response",
			7*time.Second + 2*time.Microsecond},
	}
	if len(all) != len(want) {
		t.Fatalf("%v", all)
	}
	for i := range want {
		if all[i] != want[i] {
			t.Errorf("%+v, want %+v", all[i], want[i])
		}
	}
	if s := all[0].String(); s != "Xid 79: GPU has fallen off the bus." {
		t.Error(s)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no log, no error")
	}
}

// FuzzXid: whatever is in the log, what is taken from it is short, and printable ASCII.
func FuzzXid(f *testing.F) {
	f.Add("4,3,7,-;NVRM: Xid (PCI:0000:65:00): 79, pid=1, name=a, GPU has fallen off the bus.")
	f.Fuzz(func(t *testing.T, line string) {
		e, ok := parse(line)
		if ok && (len(e.Text) > mostText || strings.ContainsFunc(e.Text, func(r rune) bool {
			return r < ' ' || r > '~'
		})) {
			t.Errorf("%+v", e)
		}
	})
}
