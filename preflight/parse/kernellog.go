package parse

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// LogSeverity is what one family of kernel messages means for a GPU node.
type LogSeverity string

// Severities.
const (
	// LogBroken: the hardware is broken or unusable until somebody repairs or
	// restarts it, however long ago it was said in this boot.
	LogBroken LogSeverity = "broken"
	// LogFault: it was unusable when it was said; it counts while recent.
	LogFault LogSeverity = "fault"
	// LogNote: worth seeing.
	LogNote LogSeverity = "note"
)

// LogHit is one kernel message that belongs to a family.
type LogHit struct {
	Family   string
	Severity LogSeverity
	// Time is zero where the line carries no absolute time.
	Time time.Time
	// Device is the PCI address in the message, if any.
	Device string
	Line   string
}

// families are tried in order; the first that matches names the line. "un" words
// stand before their positive forms, and \b keeps "correctable" out of
// "uncorrectable".
var families = []struct {
	name string
	sev  LogSeverity
	re   *regexp.Regexp
}{
	{"uncorrectable memory error", LogBroken, regexp.MustCompile(`(?i)amdgpu.*(?:\b[1-9]\d* uncorrectable hardware errors?|poison is consumed|poison consumption)`)},
	{"bad page threshold", LogBroken, regexp.MustCompile(`(?i)saved bad pages \d+ reaches threshold|amdgpu.*bad page threshold`)},
	{"GPU initialisation failed", LogBroken, regexp.MustCompile(`(?i)amdgpu.*(?:fatal error during gpu init|hw_init.*failed|fw_status\s*0xffffffff|memory training failed|hbm .*test failed|(?:wafl|xgmi).*link training failed|discovery failed)|MES\([^)]*\).*SET_HW_RSRC|probe with driver amdgpu failed|amdgpu: probe of \S+ failed`)},
	{"GPU fell off the bus", LogBroken, regexp.MustCompile(`(?i)amdgpu.*(?:fell off|fallen off|device lost|lost from (?:the )?bus)`)},
	{resetFailed, LogBroken, regexp.MustCompile(`(?i)gpu reset.*failed|gpu recovery failed|cp might be in an unrecoverable state`)},
	// "(Non-Fatal)" holds the word too, so the parenthesis counts.
	{"fatal PCIe error", LogFault, regexp.MustCompile(`(?i)(?:pcieport|aer|amdgpu|ionic|bnxt|mlx5).*(?:\(fatal\)|severity=fatal|[^-]\bfatal error)`)},
	{"ring timeout", LogFault, regexp.MustCompile(`(?i)ring \S+ timeout|fence wait loop timeout|gpu hang`)},
	{"GPU reset", LogFault, regexp.MustCompile(`(?i)gpu reset begin`)},
	{"amdgpu failure", LogFault, regexp.MustCompile(`amdgpu.*\bFailed to\b`)},
	{"network watchdog", LogFault, regexp.MustCompile(`NETDEV WATCHDOG`)},
	{"queue eviction failed", LogNote, regexp.MustCompile(`(?i)queue preemption failed|failed to evict (?:process )?queues?|no more sdma queue to allocate`)},
	{"hung task", LogNote, regexp.MustCompile(`(?i)blocked for more than \d+ seconds|hung_task|soft lockup|hard lockup`)},
	{"correctable memory error", LogNote, regexp.MustCompile(`(?i)\bcorrectable hardware errors?|\bcorrected error|mce: .*corrected`)},
	{"GPU page fault", LogNote, regexp.MustCompile(`(?i)no-retry page fault|retry page fault|protection_fault_status|illegal register access`)},
	{"hardware error record", LogNote, regexp.MustCompile(`(?i)accelerator check architecture|\baca\b.*(?:entry|status)|\[hardware error\]|hardware error`)},
	{"out of memory kill", LogNote, regexp.MustCompile(`(?i)oom_kill_process|out of memory: killed|oom-kill:`)},
	{"link flap", LogNote, regexp.MustCompile(`(?i)(?:nic )?link is down`)},
	{"RDMA queue error", LogNote, regexp.MustCompile(`(?i)queue catastrophic|cq error|ib_uverbs?.*error`)},
	{"runlist oversubscribed", LogNote, regexp.MustCompile(`(?i)runlist is getting oversubscribed|expect reduced rocm performance`)},
	{"page allocation failure", LogNote, regexp.MustCompile(`(?i)page allocation failure`)},
}

// resetFailed is a family of its own because a later reset may succeed.
const resetFailed = "GPU reset failed"

var (
	resetDone = regexp.MustCompile(`(?i)gpu reset\(?\d*\)? ?succeeded|gpu reset end`)
	isoTime   = regexp.MustCompile(`\b(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:[.,](\d+))?(Z|[+-]\d{2}:?\d{2})?`)
	acaUC     = regexp.MustCompile(`(?i)aca.*STATUS\s*=\s*0x([0-9a-f]{1,16})`)
)

// acaUncorrected is the "uncorrected" bit of a machine check status.
const acaUncorrected = 1 << 61

// KernelLog finds the messages that matter in a kernel log of any form: dmesg
// with or without -x and --time-format=iso, or journalctl -k. lines is how many
// lines there were at all. A reset that succeeded takes the faults before it on
// the same device down to notes.
func KernelLog(text string) (hits []LogHit, lines int) {
	for _, l := range Lines(text) {
		if strings.TrimSpace(l) == "" {
			continue
		}
		lines++
		if resetDone.MatchString(l) {
			dev := bdfAnyCase.FindString(l)
			for i := range hits {
				if (hits[i].Severity == LogFault || hits[i].Family == resetFailed) && (dev == "" || hits[i].Device == "" || hits[i].Device == dev) {
					hits[i].Severity = LogNote
				}
			}
			continue
		}
		if !telling(l) {
			continue
		}
		for _, f := range families {
			if !f.re.MatchString(l) {
				continue
			}
			h := LogHit{Family: f.name, Severity: f.sev, Time: logTime(l), Device: strings.ToLower(bdfAnyCase.FindString(l)), Line: strings.TrimSpace(l)}
			if m := acaUC.FindStringSubmatch(l); m != nil {
				if n, err := strconv.ParseUint(m[1], 16, 64); err == nil && n&acaUncorrected != 0 {
					h.Family, h.Severity = "uncorrectable memory error", LogBroken
				}
			}
			hits = append(hits, h)
			break
		}
	}
	return hits, lines
}

// tellingWords is at least one word of every family: most lines of a log hold
// none, and the expressions need not be tried on them.
var tellingWords = []string{"amdgpu", "gpu", "error", "fail", "fault", "oom", "memory", "link is down", "blocked for", "hung_task", "lockup", "queue", "mce:", "watchdog", "runlist",
	"performance", "poison", "pages", "timeout", "aer", "aca", "allocation", "unrecoverable", "architecture", "mes(", "register"}

func telling(l string) bool {
	low := strings.ToLower(l)
	for _, w := range tellingWords {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

func logTime(l string) time.Time {
	m := isoTime.FindStringSubmatch(l)
	if m == nil || m[3] == "" {
		return time.Time{}
	}
	zone := m[3]
	if len(zone) == 5 {
		zone = zone[:3] + ":" + zone[3:]
	}
	t, err := time.Parse(time.RFC3339, m[1]+zone)
	if err != nil {
		return time.Time{}
	}
	return t
}
