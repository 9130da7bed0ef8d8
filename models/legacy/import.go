package legacy

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/disagg/disagg/models"
	"github.com/disagg/disagg/models/catalog"
)

// File is one file, as it was read or as it is to be written.
type File struct {
	Path string
	Data []byte
}

// Sources are the old files to convert. Each may be missing.
type Sources struct {
	// SGLang, VLLM and ATOM are the model files: models.yaml, models_vllm.yaml
	// and models_atom.yaml.
	SGLang, VLLM, ATOM *File
	// Excludes is node_excludes.yaml.
	Excludes *File
	// Master are master files of a sweep repository.
	Master []File
	// Runners is the sweep repository's file of runner labels and hardware.
	Runners *File
	// Keys narrows the master files to the keys that one of these globs matches;
	// empty: all.
	Keys []string
	// Evals says whether rows are evaluated; empty: EvalsNone.
	Evals EvalMode
	// Repo is where nodes see the sweep repository, whose client runs are
	// measured with; empty: the site file does not mount it.
	Repo string
	// Catalog is what the imported model files are compared with.
	Catalog *catalog.Catalog
}

// EvalMode says whether rows of a master file are evaluated. An evaluation is a
// run of its own, as it was: its workers must give right answers, and those of
// a measurement need not.
type EvalMode string

// What becomes of the rows that the sweep generator chose for evaluation.
const (
	EvalsNone EvalMode = "none" // every row is measured, nothing is evaluated
	EvalsOnly EvalMode = "only" // they are evaluated, nothing is measured
	EvalsAlso EvalMode = "also" // every row is measured, and they are evaluated as well
)

// Imported is what became of the sources.
type Imported struct {
	// Files are to be written below one directory.
	Files []File
	// Notes are settings that nothing reads and others worth a look, with their
	// places.
	Notes models.FieldErrors
	// Runs are the runs of the master files, in their order.
	Runs []Run
	// Known are models whose settings the catalog has already.
	Known []string
}

// Run is one run of a search space.
type Run struct {
	// Key is that of the master file.
	Key string
	// Name is the run's; empty: it was left out.
	Name string
	// File is the recipe that the run is a point of.
	File string
	// LeftOut says why there is no recipe; empty: there is.
	LeftOut string
	// Place is file:line:col of the search-space entry.
	Place string
}

// Import converts files. The error is models.FieldErrors and holds every mistake
// of every file; nothing is to be written then.
func Import(src Sources) (*Imported, error) {
	im := &importer{src: src, out: &Imported{}}
	im.models()
	im.recipes()
	im.site()
	if len(im.errs) > 0 {
		for _, f := range append([]File{deref(src.SGLang), deref(src.VLLM), deref(src.ATOM), deref(src.Excludes), deref(src.Runners)}, src.Master...) {
			im.errs = im.errs.Quote(f.Path, f.Data)
		}
		return nil, im.errs.Sort().Err()
	}
	im.out.Notes = im.notes.Sort()
	slices.SortFunc(im.out.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return im.out, nil
}

type importer struct {
	src   Sources
	out   *Imported
	errs  models.FieldErrors
	notes models.FieldErrors
	// added are catalog files that the recipes are to be planned with.
	added []catalog.File
}

// take keeps the mistakes of a document.
func (im *importer) take(err error) {
	if list, ok := errors.AsType[models.FieldErrors](err); ok {
		im.errs = append(im.errs, list...)
	}
}

func (im *importer) add(path string, data []byte, err error) {
	if err != nil {
		im.errs = append(im.errs, models.FieldError{File: path, Msg: err.Error()})
		return
	}
	im.out.Files = append(im.out.Files, File{Path: path, Data: data})
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
