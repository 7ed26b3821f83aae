// SPDX-License-Identifier: Apache-2.0

// Package hostgpus reads which GPUs an operator wants for a VM (--gpu), and finds them among the
// host's. It asks no driver: the caller passes the host's GPUs.
package hostgpus

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/pcie"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// The kinds of GPUs.
const (
	Auto = "auto" // the host's if it has any, otherwise the software GPU
	CUDA = "cuda"
	Soft = "soft"
)

// Most is how many GPUs a VM may have: those for which its ledger has room.
const Most = ledger.GPUs

// MostSoft is how many software GPUs a VM may have: as many as the largest hosts have of real ones.
const MostSoft = 8

// entriesMost bounds the text that names them.
const entriesMost = 64

// GPU is a GPU of the host.
type GPU struct {
	Name   string       `json:"name"`
	UUID   string       `json:"uuid"` // as nvidia-smi prints it
	Place  pcie.Address `json:"bus"`
	Memory uint64       `json:"memory"`
	Free   uint64       `json:"free,omitempty"`  // of that, at the moment; 0: not known
	Peers  []int        `json:"peers,omitempty"` // whose memory it reaches, by their indices
	// as far as the driver tells of them, up or not
	NVLinks     []NVLink `json:"nvlinks,omitempty"`
	NVLinkSpeed uint32   `json:"nvlinkSpeed,omitempty"` // of all, in MB/s, if the driver tells it
	Fabric      *Fabric  `json:"fabric,omitempty"`      // nil: the driver doesn't tell
	Ways        []Way    `json:"ways,omitempty"`        // to each GPU of which something is known
}

func (g *GPU) String() string { return fmt.Sprintf("%s, %d MiB", g.Name, g.Memory>>20) }

// Described is a GPU as its driver describes it to guests.
func Described(d *wire.InventoryDevice) GPU {
	name, _, _ := bytes.Cut(d.Name[:], []byte{0})
	return GPU{
		Name: string(name), UUID: UUID(d.Uuid), Memory: d.TotalMemory,
		Place: pcie.Address{
			Domain: uint32(d.Attribute[cudaabi.DeviceAttributePCIDomainID]),
			Bus:    uint32(d.Attribute[cudaabi.DeviceAttributePCIBusID]),
			Device: uint32(d.Attribute[cudaabi.DeviceAttributePCIDeviceID]),
		},
	}
}

// Choice is what --gpu says.
type Choice struct {
	Kind    string
	text    string
	all     bool
	soft    int      // how many software GPUs; 0: one
	auto    int      // how many of those with the most free memory; 0: the first GPU
	memory  uint64   // that each of these has to have free
	entries []string // each an index, the beginning of a UUID or a bus id; empty: the first GPU
}

// Parse reads KIND, cuda:LIST, soft:N, or auto:N,memory=SIZE. Of checks whether the host has these
// GPUs.
func Parse(text string) (_ *Choice, err error) {
	kind, list, listed := strings.Cut(text, ":")
	c := &Choice{Kind: kind, text: text}
	switch {
	case kind != Auto && kind != CUDA && kind != Soft:
		return nil, fmt.Errorf("%s: want auto, soft or cuda, auto: or soft: and how many, or "+
			"cuda: and which GPUs", shown(text))
	case !listed:
		return c, nil
	case kind == Soft:
		c.soft, err = softGPUs(text, list)
		return c, err
	case kind == Auto:
		return c, c.parseAuto(list)
	case list == "all":
		c.all = true
		return c, nil
	}
	c.entries = strings.Split(list, ",")
	if len(c.entries) > entriesMost {
		return nil, fmt.Errorf("cuda:LIST names %d GPUs: %d are the most", len(c.entries), Most)
	}
	for _, e := range c.entries {
		if !readable(e) {
			return nil, fmt.Errorf("%s: GPU %.40q: want its index, its UUID or its bus id, "+
				"as paracuda probe lists them, or cuda:all", shown(text), e)
		}
	}
	return c, nil
}

// shown is a text for a message: unchanged if it is short and plain, otherwise quoted.
func shown(text string) string {
	if text != "" && len(text) <= 40 && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return text
	}
	return fmt.Sprintf("%.40q", text)
}

// softGPUs reads the number of software GPUs.
func softGPUs(text, count string) (int, error) {
	n, err := strconv.ParseUint(count, 10, 16)
	if err != nil || n == 0 || n > MostSoft {
		return 0, fmt.Errorf("%s: want soft, or soft:N for N software GPUs, 1 to %d", shown(text),
			MostSoft)
	}
	return int(n), nil
}

// SoftGPUs is how many software GPUs there are, if the choice is the software GPU.
func (c *Choice) SoftGPUs() int { return max(1, c.soft, c.auto) }

// CheckSoft says why software GPUs of this much memory can't stand for the GPUs that are meant.
func (c *Choice) CheckSoft(memory uint64) error {
	switch n := c.SoftGPUs(); {
	case n > MostSoft:
		return fmt.Errorf("--gpu %s: the host has no GPU, and %d software GPUs are too many: %d "+
			"are the most", shown(c.text), n, MostSoft)
	case c.memory > memory:
		return fmt.Errorf("--gpu %s: the host has no GPU, and software GPUs have less memory: "+
			"see --set soft-memory", shown(c.text))
	}
	return nil
}

// readable says whether an entry has one of the three forms.
func readable(entry string) bool {
	_, isIndex := index(entry)
	_, err := pcie.Parse(entry)
	return isIndex || isUUID(entry) || err == nil
}

func index(entry string) (int, bool) {
	n, err := strconv.ParseUint(entry, 10, 16)
	return int(n), err == nil
}

// isUUID says whether an entry is a UUID, or the beginning of one.
func isUUID(entry string) bool {
	const prefix = "GPU-"
	return len(entry) > len(prefix) && strings.EqualFold(entry[:len(prefix)], prefix)
}

// Of returns which of a host's GPUs are meant, in the order in which the VM has them.
func (c *Choice) Of(host []GPU) ([]GPU, error) {
	if len(host) == 0 {
		return nil, errors.New("the host has no GPU")
	}
	if c.all {
		return bounded(slices.Clone(host))
	}
	if c.auto > 0 {
		return c.free(host)
	}
	if len(c.entries) == 0 {
		return host[:1:1], nil
	}
	var chosen []int
	for _, e := range c.entries {
		i, err := find(e, host)
		if err != nil {
			return nil, fmt.Errorf("--gpu %s: %w", shown(c.text), err)
		}
		if slices.Contains(chosen, i) {
			return nil, fmt.Errorf("--gpu %s: %s is GPU %d, which is named twice: name it once",
				shown(c.text), e, i)
		}
		chosen = append(chosen, i)
	}
	gpus := make([]GPU, len(chosen))
	for k, i := range chosen {
		gpus[k] = host[i]
	}
	return bounded(gpus)
}

func bounded(gpus []GPU) ([]GPU, error) {
	if len(gpus) > Most {
		return nil, fmt.Errorf("%d GPUs for one VM: %d are the most: name fewer",
			len(gpus), Most)
	}
	return gpus, nil
}

// find returns the position of the GPU that an entry means.
func find(entry string, host []GPU) (int, error) {
	if i, ok := index(entry); ok {
		if i < len(host) {
			return i, nil
		}
		return 0, fmt.Errorf("there is no GPU %d: %s", i, those(host))
	}
	place, notPlace := pcie.Parse(entry)
	found := -1
	for i := range host {
		if isUUID(entry) && !begins(host[i].UUID, entry) ||
			!isUUID(entry) && (notPlace != nil || place != host[i].Place) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("%s means GPU %d and GPU %d: give more of the UUID",
				entry, found, i)
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf("there is no GPU %s: %s", entry, those(host))
	}
	return found, nil
}

// begins says whether a UUID begins with a text, in small or capital letters.
func begins(uuid, with string) bool {
	return len(uuid) >= len(with) && strings.EqualFold(uuid[:len(with)], with)
}

// those says which GPUs there are.
func those(host []GPU) string {
	if len(host) == 1 {
		return "the host has only GPU 0 (paracuda probe)"
	}
	return fmt.Sprintf("the host has GPU 0 to %d (paracuda probe lists them)", len(host)-1)
}

// Visible is the CUDA_VISIBLE_DEVICES with which a process sees only these of the host's GPUs, in
// this order. ok is false if it sees just these without it.
func Visible(chosen, host []GPU) (list string, ok bool) {
	if slices.EqualFunc(chosen, host, func(a, b GPU) bool { return a.UUID == b.UUID }) {
		return "", false
	}
	uuids := make([]string, len(chosen))
	for i := range chosen {
		uuids[i] = chosen[i].UUID
	}
	return strings.Join(uuids, ","), true
}

// ParseUUID reads a UUID as nvidia-smi prints it.
func ParseUUID(text string) ([16]byte, error) {
	_, digits, _ := strings.Cut(text, "-")
	b, err := hex.DecodeString(strings.ReplaceAll(digits, "-", ""))
	if err != nil || len(b) != 16 {
		return [16]byte{}, fmt.Errorf("a GPU's UUID is %q", text)
	}
	return [16]byte(b), nil
}

// UUID returns a UUID as nvidia-smi prints it.
func UUID(u [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
