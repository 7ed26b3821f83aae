// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
)

// cubin is an ELF file with one symbol: its type and its st_other.
func cubin(name string, typ, other byte) []byte {
	le := binary.LittleEndian
	b := make([]byte, 64+3*sectionSize)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint64(b[40:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[58:], sectionSize)
	le.PutUint16(b[60:], 3)
	symtab, strtab := b[64+sectionSize:], b[64+2*sectionSize:]
	le.PutUint32(symtab[4:], sectionSymtab)
	le.PutUint64(symtab[24:], uint64(len(b)))
	le.PutUint64(symtab[32:], 2*symbolSize)
	le.PutUint32(symtab[40:], 2)
	le.PutUint32(strtab[4:], 3)
	le.PutUint64(strtab[24:], uint64(len(b))+2*symbolSize)
	le.PutUint64(strtab[32:], uint64(len(name))+2)
	symbol := make([]byte, symbolSize)
	le.PutUint32(symbol, 1)
	symbol[4], symbol[5] = typ, other
	b = append(append(b, make([]byte, symbolSize)...), symbol...)
	return append(b, "\x00"+name+"\x00"...)
}

// fatBinary is a container with one entry.
func fatBinary(kind uint16, payload []byte) []byte {
	le := binary.LittleEndian
	payload = append(bytes.Clone(payload), make([]byte, -len(payload)&7)...)
	entry := make([]byte, 64)
	le.PutUint16(entry, kind)
	le.PutUint32(entry[4:], 64)
	le.PutUint64(entry[8:], uint64(len(payload)))
	le.PutUint32(entry[28:], 75)
	b := make([]byte, 16)
	le.PutUint32(b, magicFatbin)
	le.PutUint16(b[4:], 1)
	le.PutUint16(b[6:], 16)
	le.PutUint64(b[8:], uint64(len(entry)+len(payload)))
	return append(append(b, entry...), payload...)
}

const managedText = ".version 6.5\n.target sm_75\n.address_size 64\n.global .attribute(.managed) .align 4 .u32 counter = 5;\n"

func TestManagedVariable(t *testing.T) {
	short := cubin("counter", symbolObject, symbolManaged)
	for _, c := range []struct {
		what  string
		image []byte
		name  string // empty: none
	}{
		{"PTX", []byte(managedText), "counter"},
		{"PTX, array", []byte(strings.Replace(managedText, "counter = 5", "counter[9]", 1)), "counter"},
		{"PTX that ends there", []byte(".version 6.5\n.global .attribute(.managed"), "?"},
		{"plain PTX", []byte(twoKernels), ""},
		{"cubin", short, "counter"},
		{"plain variable", cubin("counter", symbolObject, 0), ""},
		{"kernel", cubin("counter", 2, 0x14), ""},
		{"fat binary of PTX", fatBinary(1, []byte(managedText)), "counter"},
		{"fat binary of a cubin", fatBinary(2, short), "counter"},
		{"fat binary, plain", fatBinary(1, []byte(twoKernels)), ""},
		{"rubbish", []byte("rubbish"), ""},
	} {
		if name, found := managedVariable(c.image); found != (c.name != "") || name != c.name {
			t.Errorf("%s: %q, %v; want %q", c.what, name, found, c.name)
		}
	}
	for n := range short { // whatever is missing, nothing is read beyond the end
		managedInELF(short[:n])
	}
}

func FuzzManagedVariable(f *testing.F) {
	f.Add([]byte(managedText))
	f.Add(cubin("counter", symbolObject, symbolManaged))
	f.Add(fatBinary(2, cubin("counter", symbolObject, symbolManaged)))
	f.Fuzz(func(_ *testing.T, image []byte) { managedVariable(image) })
}

func TestManagedVariablesAreRefused(t *testing.T) {
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	d := newDevice(t, Options{Log: logrus.NewEntry(log)})
	_, _, _, r := d.ModuleLoadData([]byte(managedText), nil, nil, nil)
	want(t, "module", r, gpubackend.NotSupported)
	_, _, _, r = d.LibraryLoadData([]byte(managedText), nil, nil, nil)
	want(t, "library", r, gpubackend.NotSupported)
	if !strings.Contains(out.String(), "variable=counter") || d.count("cuModuleLoadDataEx") != 0 {
		t.Errorf("the log doesn't name the variable: %s", out.String())
	}

	// What was overlooked isn't given out.
	out.Reset()
	m, _, _, r := d.ModuleLoadData([]byte(twoKernels), nil, nil, nil)
	must(t, "load", r)
	l, _, _, r := d.LibraryLoadData([]byte(twoKernels), nil, nil, nil)
	must(t, "load", r)
	for _, get := range []func(name string) (uint64, uint64, gpubackend.Result){
		func(name string) (uint64, uint64, gpubackend.Result) { return d.ModuleGetGlobal(m, name) },
		func(name string) (uint64, uint64, gpubackend.Result) { return d.LibraryGetGlobal(l, name) },
	} {
		addr, bytes, r := get("plain")
		if must(t, "plain variable", r); addr != 0x5000 || bytes != 4 {
			t.Errorf("plain: %d bytes at %#x", bytes, addr)
		}
		if addr, bytes, r = get("hidden"); addr != 0 || bytes != 0 || r != gpubackend.NotSupported {
			t.Errorf("hidden: %d bytes at %#x, result %d", bytes, addr, r)
		}
	}
	_, _, r = d.LibraryGetManaged(l, "hidden")
	want(t, "managed variable", r, gpubackend.NotSupported)
	_, _, r = d.LibraryGetManaged(l, "plain")
	want(t, "no managed variable", r, gpubackend.NotFound)
	if strings.Count(out.String(), "variable=hidden") != 3 {
		t.Errorf("log: %s", out.String())
	}
}
