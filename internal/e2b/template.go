package e2b

import "net/http"

type builds struct{}

func (f *Facade) createTemplate(http.ResponseWriter, *request) error {
	return unsupported("template builds")
}
func (f *Facade) listTemplates(http.ResponseWriter, *request) error {
	return unsupported("template builds")
}
func (f *Facade) getTemplates(http.ResponseWriter, *request) error {
	return unsupported("template builds")
}
func (f *Facade) deleteTemplates(http.ResponseWriter, *request) error {
	return unsupported("template builds")
}
func (f *Facade) assignTags(http.ResponseWriter, *request) error {
	return unsupported("template builds")
}
func (f *Facade) removeTags(http.ResponseWriter, *request) error {
	return unsupported("template builds")
}
func (f *Facade) startBuild(http.ResponseWriter, *request) error {
	return unsupported("template builds")
}
func (f *Facade) putUpload(w http.ResponseWriter, r *http.Request) {
	fail(w, r, unsupported("template builds"))
}
