// The page of `fxlens check --format html`: it contains the report.
const report = JSON.parse(document.getElementById('report').textContent);
const heading = document.querySelector('h1');
heading.textContent = document.title = `Models of ${report.title}`;
const models = new Models(document.querySelector('main'), {});
models.add(report.rows);
models.close(report.notes, report.versions);
